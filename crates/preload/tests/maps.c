#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static char *map(int fd, int access) { return mmap(NULL, 4096, access, MAP_SHARED, fd, 0); }
static void say(const char *what, char *mapped) {
    printf("%s: %s\n", what, mapped == MAP_FAILED ? strerrorname_np(errno) : "0");
    fflush(stdout);
}
static void by_another(const char *what) {
    pid_t child = fork();
    if (child == 0) {
        int fd = open("file", O_RDWR);
        say(what, map(fd, PROT_READ | PROT_WRITE));
        _exit(0);
    }
    waitpid(child, NULL, 0);
}
int main(int count, char **arguments) {
    if (count < 2 || chdir(arguments[1]) < 0) return 1;
    int fd = open("file", O_CREAT | O_RDWR, 0644);
    ftruncate(fd, 4096);
    char *read = map(fd, PROT_READ);
    say("to be read", read);
    by_another("another process");
    struct flock all = {.l_type = F_RDLCK};
    pid_t child = fork();
    if (child == 0) {
        pwrite(open("file", O_RDWR), "by a call", 10, 0);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    fcntl(fd, F_SETLK, &all);
    printf("after a lock: %s\n", read);
    fflush(stdout);
    munmap(read, 4096);
    char *mapped = map(fd, PROT_READ | PROT_WRITE);
    say("alone", mapped);
    strcpy(mapped, "the first");
    all.l_type = F_UNLCK;
    fcntl(fd, F_SETLK, &all);
    child = fork();
    if (child == 0) {
        char there[10] = "";
        pread(open("file", O_RDONLY), there, 9, 0);
        printf("after the lock: %s\n", there);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    by_another("another process");
    munmap(mapped, 4096);
    by_another("after that");
    int reading = open("file", O_RDONLY);
    mapped = map(reading, PROT_READ);
    printf("read by another: %s\n", mapped == MAP_FAILED ? strerrorname_np(errno) : mapped);
    return 0;
}
