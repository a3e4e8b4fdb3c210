"""What server tools do on the web."""
