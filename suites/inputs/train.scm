(work 1 10)
