"""Know the hosts: the files of hosts, their entries, and where runs are on them."""
