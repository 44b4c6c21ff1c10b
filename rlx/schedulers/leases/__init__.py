"""Grant devices by locks on the host itself, which every run takes that is no job of a batch scheduler."""
