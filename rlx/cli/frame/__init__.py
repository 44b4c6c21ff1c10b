"""What every command uses: command table, shared options, streams, error handler."""
