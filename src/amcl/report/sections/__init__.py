"""The parts of a report, a file each; every one takes the runs and gives a section."""
