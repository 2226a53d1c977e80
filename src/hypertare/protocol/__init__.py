"""What the controller and its agents tell each other: plans, and the records that come back."""
