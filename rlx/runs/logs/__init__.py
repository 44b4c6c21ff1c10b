"""Read and follow the logs of runs, wherever they are."""
