"""Where benches stand: this host, or an emulated machine in virtual time."""
