"""The HTTP API: what a client needs of LongTask, under /v1.  A face like the command line: no rule of the machine."""
