/* Threads read and write files while the process forks children that do the same. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static int wrong;
static void *work(void *argument) {
    long number = (long)argument;
    char name[32], written[64], read[64];
    sprintf(name, "thread%ld", number);
    int fd = open(name, O_CREAT | O_RDWR | O_TRUNC, 0644);
    memset(written, 'a' + number, sizeof written);
    for (int i = 0; i < 300; i++) {
        wrong += pwrite(fd, written, 64, i * 64) != 64;
        wrong += pread(fd, read, 64, i * 64) != 64 || memcmp(read, written, 64);
        if (i % 50 == 0) close(dup(fd));
    }
    close(fd);
    return NULL;
}
int main(int count, char **arguments) {
    if (count < 2 || chdir(arguments[1]) < 0) return 1;
    pthread_t threads[8];
    for (long i = 0; i < 8; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    int shared = open("shared", O_CREAT | O_RDWR | O_APPEND | O_TRUNC, 0644), failed = 0;
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0) {
            char line[8];
            sprintf(line, "%06d\n", i);
            int works = write(shared, line, 7) == 7, other = open("shared", O_RDONLY);
            _exit(!works || other < 0);
        }
        int status;
        waitpid(child, &status, 0);
        failed += status != 0;
    }
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    printf("%d wrong, %d failed, %ld bytes\n", wrong, failed, (long)lseek(shared, 0, SEEK_END));
    return 0;
}
