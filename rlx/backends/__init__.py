"""Write a recipe down for the program that trains, judge it, and read its log: one sub-package per back-end."""
