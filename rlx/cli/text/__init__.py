"""Render answers: tables, Markdown and JSON."""
