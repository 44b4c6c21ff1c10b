"""Bundle the evidence of runs into an archive that others can verify."""
