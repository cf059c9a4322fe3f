// Known operations of threads and processes, for a test of what is recorded of them.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char room[20000];

static void check(int is_right, const char *what) {
    if (is_right) return;
    perror(what);
    exit(1);
}

static void *in_thread(void *given) {
    int file = open("threads", O_CREAT | O_WRONLY | O_APPEND, 0600);
    check(write(file, room, 3000) == 3000, "append");
    check(write(file, room, 3000) == 3000, "append");
    check(fsync(file) == 0, "fsync");
    close(file);
    return given;
}

int main(int count, char **arguments) {
    if (count > 2) {
        // Started by another: its file is descriptor 7.
        check(pread(7, room, 100, 40) == 100, "read");
        // What is done is there, however it ends.
        kill(getpid(), SIGKILL);
    }
    check(chdir(arguments[1]) == 0, "chdir");
    check(mkdir("./a", 0700) == 0, "mkdir");
    int file = open("a/../a//with blank", O_CREAT | O_TRUNC | O_RDWR, 0600);
    check(pwrite(file, room, sizeof room, 0) == sizeof room, "write");
    // From what is kept.
    check(pread(file, room, 10, 4090) == 10, "read");
    check(pread(file, room, 10, 4090) == 10, "read");
    check(pwrite(file, room, 10, 5) == 10, "write");
    check(pread(file, room, sizeof room, 30000) == 0, "read beyond the end");
    check(ftruncate(file, 12345) == 0, "truncate");
    struct stat found;
    check(stat("none", &found) != 0, "stat");
    check(chmod("a/with blank", 0640) == 0, "chmod");
    pthread_t thread;
    pthread_create(&thread, 0, in_thread, 0);
    pthread_join(thread, 0);
    int child = fork(), how;
    if (child == 0) {
        // It has the file open by a handle of its own.
        check(pread(file, room, 7, 7) == 7, "read in a child");
        _exit(0);
    }
    check(waitpid(child, &how, 0) == child && how == 0, "child");
    child = fork();
    if (child == 0) {
        check(dup2(file, 7) == 7, "dup2");
        execl(arguments[0], arguments[0], arguments[1], "again", (char *)0);
    }
    check(waitpid(child, &how, 0) == child && how == SIGKILL, "program");
    check(rename("a/with blank", "a/b") == 0, "rename");
    check(close(file) == 0, "close");
    check(unlink("a/b") == 0, "unlink");
    puts("done");
    return 0;
}
