(work 1 120)
