/* Uses files below the directory that it is given. With another word it makes system calls of its own; it is linked statically else. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static long open_at_once(const char *path) {
#ifdef __x86_64__
    long answer;
    register long flags asm("r10") = 0;
    asm volatile("syscall" : "=a"(answer) : "a"(SYS_openat), "D"((long)AT_FDCWD), "S"(path), "d"((long)O_RDONLY), "r"(flags)
                 : "rcx", "r11", "memory");
    return answer;
#else
    return -ENOENT;
#endif
}

int main(int count, char **arguments) {
    char path[256], byte[8];
    struct stat found;
    snprintf(path, sizeof path, "%s/file", arguments[1]);
    if (count > 2) {
        /* This one goes to the drive: it is by a function of the C library. */
        long by_function = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
        printf("%d %ld\n", by_function >= 0, open_at_once(path) == -ENOENT);
        return 0;
    }
    int opened = 0;
    for (int i = 0; i < 12; i++) opened += open(path, O_RDONLY) >= 0;
    opened += stat("file", &found) == 0;
    opened += open("/proc/self/maps", O_RDONLY) < 0;
    errno = 0;
    long got = read(0, byte, sizeof byte);
    printf("%d opened, read: %ld %s\n", opened, got, errno == EBADF ? "EBADF" : "");
    return 0;
}
