/* One line for each thing that was tried: DONE, or the name of the error. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

static inline void tell(const char *what, long result)
{
    printf("%s: %s\n", what, result == -1 ? strerrorname_np(errno) : "DONE");
    fflush(stdout);
}
