#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static int lock(int fd, int type) {
    struct flock all = {.l_type = type};
    return fcntl(fd, F_SETLK, &all);
}
int main(int count, char **arguments) {
    if (count < 2 || chdir(arguments[1]) < 0) return 1;
    int fd = open("file", O_CREAT | O_RDWR, 0644), taken = 0, written = 0;
    ftruncate(fd, 4096);
    for (int round = 0; round < 100; round++) {
        pid_t child = fork();
        if (child == 0) {
            char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            if (mapped == MAP_FAILED || lock(fd, F_WRLCK) < 0) _exit(1);
            sprintf(mapped, "%d", round);
            if (round % 2) _exit(0);
            exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        if (status == 0 && lock(fd, F_WRLCK) == 0) taken++;
        char text[16] = "";
        pread(fd, text, 15, 0);
        written += atoi(text) == round;
        lock(fd, F_UNLCK);
    }
    printf("%d taken, %d written\n", taken, written);
    return 0;
}
