"""Linux as a program sees it: process image, system calls, files, signals."""
