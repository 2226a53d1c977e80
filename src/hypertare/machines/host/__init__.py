"""Settings of this host that a run may change when it is asked to; each is put back exactly."""
