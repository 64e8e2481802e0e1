"""The scripted model server, asked over loopback as agents ask."""
