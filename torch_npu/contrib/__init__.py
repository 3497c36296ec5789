"""What stands beside the device: helpers for code that was written for other devices."""
