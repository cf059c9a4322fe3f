/* Processes that map a file to read it, beside one that writes to it: by calls, or by a mapping. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (64 << 12)

static char *map(int how, int access, int flags) {
    int fd = open("file", how);
    char *mapped = mmap(NULL, BYTES, access, flags, fd, 0);
    close(fd);
    return mapped;
}

static void say(const char *what, char *mapped) {
    printf("%s: %s\n", what, mapped == MAP_FAILED ? strerrorname_np(errno) : mapped);
    fflush(stdout);
}

/* Another process, which maps the file and stays until it is told to go. */
struct other {
    pid_t process;
    int told;
};

static struct other other(const char *what, int how, int access, const char *writes) {
    int there[2], back[2];
    char byte = 0;
    if (pipe(there) || pipe(back)) exit(1);
    struct other other = {fork(), there[1]};
    if (other.process == 0) {
        close(there[1]), close(back[0]);
        char *mapped = map(how, access, MAP_SHARED);
        say(what, mapped);
        if (writes && mapped != MAP_FAILED) strcpy(mapped, writes);
        if (write(back[1], "x", 1) != 1 || read(there[0], &byte, 1) < 0) _exit(1);
        exit(0);
    }
    close(there[0]), close(back[1]);
    if (read(back[0], &byte, 1) != 1) exit(1);
    close(back[0]);
    return other;
}

static void ends(struct other other) {
    close(other.told);
    waitpid(other.process, NULL, 0);
}

static void write_by_call(const char *text) {
    pid_t child = fork();
    if (child == 0) {
        int fd = open("file", O_WRONLY);
        pwrite(fd, text, strlen(text) + 1, 0);
        pwrite(fd, text, strlen(text) + 1, BYTES - 4096);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(int count, char **arguments) {
    if (count < 2 || chdir(arguments[1]) < 0) return 1;
    int file = open("file", O_CREAT | O_RDWR, 0644);
    if (ftruncate(file, BYTES) || pwrite(file, "first", 6, 0) != 6) return 1;

    /* Two that read. What a third one writes by calls shows with a lock, and with msync. */
    struct other reader = other("another reads", O_RDONLY, PROT_READ, NULL);
    char *mapped = map(O_RDONLY, PROT_READ, MAP_SHARED);
    say("one reads", mapped);
    write_by_call("second");
    struct flock lock = {.l_type = F_RDLCK};
    fcntl(file, F_SETLK, &lock);
    say("after a lock", mapped);
    say("at the end", mapped + BYTES - 4096);
    write_by_call("third");
    printf("msync: %d\n", msync(mapped, BYTES, MS_SYNC | MS_INVALIDATE));
    say("after msync", mapped);
    if (pwrite(file, "fourth", 7, 0) != 7) return 1;
    say("written by itself", mapped);
    printf("to be written: %s\n", mprotect(mapped, BYTES, PROT_READ | PROT_WRITE) ? strerrorname_np(errno) : "0");

    /* Nobody becomes one that writes by a mapping beside them. */
    say("one writes beside another", map(O_RDWR, PROT_READ | PROT_WRITE, MAP_SHARED));
    ends(reader);
    ends(other("another writes beside one", O_RDWR, PROT_READ | PROT_WRITE, NULL));
    char *written = map(O_RDWR, PROT_READ | PROT_WRITE, MAP_SHARED);
    say("one writes alone", written);
    strcpy(written, "fifth");
    say("and reads", mapped);
    ends(other("another reads beside it", O_RDONLY, PROT_READ, NULL));
    munmap(written, BYTES);
    munmap(mapped, BYTES);

    /* And nobody reads by a mapping what another writes by one. */
    struct other writer = other("another writes", O_RDWR, PROT_READ | PROT_WRITE, "sixth");
    say("one reads beside it", map(O_RDONLY, PROT_READ, MAP_SHARED));
    say("a copy", map(O_RDONLY, PROT_READ, MAP_PRIVATE));
    ends(writer);
    mapped = map(O_RDONLY, PROT_READ, MAP_SHARED);
    say("one reads after it", mapped);
    mapped = mremap(mapped, BYTES, 2 * BYTES, MREMAP_MAYMOVE);
    printf("made larger: %d\n", mapped != MAP_FAILED && mapped[2 * BYTES - 1] == 0);

    /* Who is allowed to write later has that in the file too; key -1 is none. */
    written = map(O_RDWR, PROT_READ, MAP_SHARED);
    printf("allowed later: %d\n", pkey_mprotect(written, BYTES, PROT_READ | PROT_WRITE, -1));
    strcpy(written, "seventh");
    munmap(written, BYTES);
    char there[8] = "";
    if (pread(file, there, 8, 0) != 8) return 1;
    say("and in the file", there);

    /* More files than there are numbers for their memory. */
    int wrong = 0;
    struct rlimit limit = {812, 812};
    if (setrlimit(RLIMIT_NOFILE, &limit)) return 1;
    for (int i = 0; i < 30; i++) {
        char name[16];
        sprintf(name, "f%d", i);
        int fd = open(name, O_CREAT | O_RDWR, 0644);
        if (write(fd, name, 16) != 16) wrong++;
        close(fd);
        fd = open(name, O_RDONLY);
        char *one = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
        close(fd);
        wrong += one == MAP_FAILED || strcmp(one, name);
    }
    printf("%d wrong of 30\n", wrong);
    return 0;
}
