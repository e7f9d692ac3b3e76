"""What the specs of several kinds share: like them it imports nothing but `core`."""
