/* Has functions of its own by names of the C library, as programs with gnulib do: they make the system calls. The linker lets shared
 * objects find them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int renameat2(int from, const char *a, int to, const char *b, unsigned flags) { return syscall(SYS_renameat2, from, a, to, b, flags); }
int openat(int at, const char *path, int flags, ...) { return syscall(SYS_openat, at, path, flags, 0644); }
ssize_t write(int fd, const void *data, size_t bytes) { return syscall(SYS_write, fd, data, bytes); }

int main(int count, char **arguments) {
    (void)count;
    if (chdir(arguments[1]) < 0) return 1;
    int fd = openat(AT_FDCWD, "a", O_CREAT | O_WRONLY);
    printf("%zd", write(fd, "text", 4));
    close(fd);
    printf(" %d", rename("a", "b"));
    printf(" %d", renameat2(AT_FDCWD, "b", AT_FDCWD, "c", 1));
    struct stat s;
    printf(" %d", stat("c", &s));
    printf(" %ld\n", (long)s.st_size);
    return 0;
}
