(work 8 400)
