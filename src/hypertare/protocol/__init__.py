"""What the controller and its agents exchange: plans, and the records that come back."""
