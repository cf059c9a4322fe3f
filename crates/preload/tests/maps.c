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
static void in_child(void (*does)(const char *), const char *what) {
    pid_t child = fork();
    if (child == 0) {
        does(what);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}
static void maps(const char *what) { say(what, map(open("file", O_RDWR), PROT_READ | PROT_WRITE)); }
static void writes(const char *text) { pwrite(open("file", O_RDWR), text, strlen(text) + 1, 0); }
static void reads(const char *what) {
    char there[10] = "";
    pread(open("file", O_RDONLY), there, 9, 0);
    printf("%s: %s\n", what, there);
}
int main(int count, char **arguments) {
    if (count < 2 || chdir(arguments[1]) < 0) return 1;
    int fd = open("file", O_CREAT | O_RDWR, 0644);
    ftruncate(fd, 4096);
    char *read = map(fd, PROT_READ);
    say("to be read", read);
    in_child(maps, "another process");
    struct flock all = {.l_type = F_RDLCK};
    in_child(writes, "by a call");
    fcntl(fd, F_SETLK, &all);
    printf("after a lock: %s\n", read);
    fflush(stdout);
    munmap(read, 4096);
    char *mapped = map(fd, PROT_READ | PROT_WRITE);
    say("alone", mapped);
    strcpy(mapped, "the first");
    all.l_type = F_UNLCK;
    fcntl(fd, F_SETLK, &all);
    in_child(reads, "after the lock");
    in_child(maps, "another process");
    munmap(mapped, 4096);
    in_child(maps, "after that");
    int reading = open("file", O_RDONLY);
    mapped = map(reading, PROT_READ);
    printf("read by another: %s\n", mapped == MAP_FAILED ? strerrorname_np(errno) : mapped);
    return 0;
}
