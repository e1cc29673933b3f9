"""Sets of programs: described, fetched, built, given inputs."""
