"""What a program that runs on another machine needs: start-up, writing counters, reading them."""
