"""Share between back-ends what several of them write or promise. Nothing here knows one of them."""
