"""The frame of every command: command table, options, streams, error handler."""
