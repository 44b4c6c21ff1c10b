"""Take runs out of the way: hide them from names, and delete what they left, here and on their hosts."""
