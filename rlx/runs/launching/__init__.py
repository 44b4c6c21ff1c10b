"""Launch plans: journal, ship and start them, and begin further attempts."""
