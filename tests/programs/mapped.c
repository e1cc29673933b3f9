/* What is seen of a file through several mappings, descriptors and names at once. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE 20000

static void show(const char *what, const char *data, int size)
{
    printf("%s: ", what);
    for (int i = 0; i < size; i++)
        putchar(data[i] >= ' ' ? data[i] : '.');
    putchar('\n');
}

int main(void)
{
    char buffer[SIZE];
    int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600), other, reader;
    char *a, *b, *c, *d;

    for (int i = 0; i < SIZE; i++)
        buffer[i] = 'a' + i % 26;
    write(file, buffer, SIZE);
    reader = open("file", O_RDONLY);
    a = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    b = mmap(0, SIZE, PROT_READ, MAP_SHARED, reader, 0);
    c = mmap(0, SIZE - 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 8192);
    memcpy(a + 8200, "one mapping", 11);
    show("another mapping", b + 8200, 16);
    show("one with an offset", c + 8, 16);
    pread(reader, buffer, 16, 8200);
    show("pread", buffer, 16);
    pwrite(file, "written", 7, 100);
    show("after pwrite", a + 100, 10);
    show("after pwrite, read-only", b + 100, 10);
    memcpy(a + 104, "MAPPED", 6);
    pwrite(file, "again", 5, 112);
    show("both", b + 100, 20);
    other = open("file", O_RDWR);
    lseek(other, 19990, SEEK_SET);
    read(other, buffer, 5);
    write(other, "end", 3);
    show("end by mapping", c + 19990 - 8192, 10);
    c[19999 - 8192] = '!';
    lseek(other, -1, SEEK_END);
    show("end by read", buffer, read(other, buffer, 10));
    ftruncate(other, 19000);
    ftruncate(other, 20000);
    show("cut and grown", a + 18996, 8);
    close(file);
    close(other);
    memcpy(c, "descriptors are closed", 22);
    munmap(a, SIZE);
    show("first is gone", b + 8192, 22);
    msync(c, SIZE - 8192, MS_SYNC);
    munmap(c, SIZE - 8192);
    show("only the reader", b + 8192, 22);
    pread(reader, buffer, 22, 8192);
    show("file", buffer, 22);
    other = open("file", O_RDWR);
    d = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
    memcpy(d, "moved", 5);
    d = mremap(d, 8192, 16384, MREMAP_MAYMOVE);
    memcpy(d + 8192, "grown", 5);
    show("after mremap", b, 8);
    show("behind it", b + 8192, 8);
    d = mremap(d, 16384, 8192, 0);
    memcpy(d, "cut", 3);
    madvise(d, 8192, MADV_DONTNEED);
    show("not needed", d, 8);
    show("not needed elsewhere", b, 8);
    pread(other, buffer, 8, 0);
    show("nor in the file", buffer, 8);
    mprotect(d, 8192, PROT_READ);
    pwrite(other, "last", 4, 0);
    show("last", d, 8);
    return 0;
}
