"""Settings of kernels and of schedulers that a study can vary."""
