"""Guest kernels and initramfs archives, cached by content."""
