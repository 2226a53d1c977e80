"""Settings of this host that a run may change when it is asked to: lent, and given back exactly."""
