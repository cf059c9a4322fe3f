// What a process has open, locked and mapped is lost when another server serves the drive; what it opens then is as it is.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void told(const char *what, long result) {
    printf("%s: %s\n", what, result >= 0 ? "done" : errno == EIO ? "EIO" : strerror(errno));
}

static int locks(int file, int kind) {
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    return fcntl(file, F_SETLK, &lock);
}

static int made(const char *name, const char *text) {
    int file = open(name, O_CREAT | O_RDWR, 0666);
    if (file < 0 || write(file, text, strlen(text)) < 0) return -1;
    return file;
}

int main(int count, char **arguments) {
    char text[4096] = "";
    chdir(arguments[1]);
    int file = made("file", "first"), inherited = made("inherited", "first"), mapped = made("mapped", "first");
    made("journal", "of before");
    struct stat before, after;
    fstat(file, &before);
    told("locked", locks(file, F_WRLCK));
    // The mapping is there without its descriptor.
    char *memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, mapped, 0);
    told("mapped", memory == MAP_FAILED ? -1 : 0);
    fsync(mapped);
    close(mapped);
    strcpy(memory, "never brought back");

    // A child that has asked for nothing yet, and hears of the other server by a pipe.
    int go[2];
    pipe(go);
    fflush(stdout);
    if (fork() == 0) {
        close(go[1]);
        read(go[0], text, 1);
        told("child reads", pread(inherited, text, 5, 0));
        told("child writes", pwrite(inherited, "child", 5, 0));
        told("child syncs", fsync(inherited));
        fflush(stdout);
        _exit(0);
    }
    close(go[0]);
    puts("ready");
    fflush(stdout);
    getchar();

    told("unlinks what may be another's by now", unlink("journal"));
    told("makes", open("new", O_CREAT | O_RDWR, 0666));
    told("makes what is there", open("journal", O_CREAT | O_RDWR, 0666));
    told("cuts", open("journal", O_TRUNC | O_RDWR));
    told("renames", rename("journal", "other"));
    told("reads", pread(file, text, 5, 0));
    told("writes", pwrite(file, "wrong", 5, 0));
    told("locks", locks(file, F_WRLCK));
    told("unlocks", locks(file, F_UNLCK));
    told("syncs", fsync(file));
    told("brings back", msync(memory, 4096, MS_SYNC));
    told("stats", fstat(file, &after));
    fflush(stdout);
    close(go[1]);
    wait(0);

    int anew = open("file", O_RDWR);
    told("opens anew", anew);
    fstat(anew, &after);
    printf("same number %d, same device %d\n", before.st_ino == after.st_ino, before.st_dev == after.st_dev);
    stat("file", &before);
    printf("same device %d\n", before.st_dev == after.st_dev);
    told("locks anew", locks(anew, F_WRLCK));
    told("closes what is lost", close(file));
    // The new lock is not of the file that was closed.
    fflush(stdout);
    if (fork() == 0) {
        int own = open("file", O_RDWR);
        printf("child locks: %s\n", locks(own, F_WRLCK) == 0 ? "done" : "held");
        fflush(stdout);
        _exit(0);
    }
    wait(0);
    mapped = open("mapped", O_RDWR);
    char *now = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, mapped, 0);
    printf("mapped anew: %s\n", now == MAP_FAILED ? strerror(errno) : now);
    munmap(memory, 4096);
    memset(text, 0, sizeof text);
    pread(mapped, text, 20, 0);
    printf("in the file: %s\n", text);
    told("unlinks", unlink("journal"));
    return 0;
}
