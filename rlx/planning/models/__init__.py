"""Shapes of models: from their config.json, else from the table."""
