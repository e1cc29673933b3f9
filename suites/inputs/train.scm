(work 1 200)
