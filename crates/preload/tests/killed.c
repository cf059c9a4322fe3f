/* Kills children at any moment of what they do with one open file, and goes on with it. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **arguments) {
    if (count < 2 || chdir(arguments[1]) < 0) return 1;
    int shared = open("shared", O_CREAT | O_RDWR | O_TRUNC, 0644), written = 0;
    char line[128];
    memset(line, 'x', sizeof line);
    for (int i = 0; i < 40; i++) {
        pid_t child = fork();
        if (child == 0) {
            int lock = open("lock", O_CREAT | O_RDWR, 0644);
            for (;;) {
                flock(lock, LOCK_EX);
                if (write(shared, line, sizeof line) != sizeof line) _exit(1);
                flock(lock, LOCK_UN);
            }
        }
        usleep(1000 + i * 137);
        kill(child, SIGKILL);
        int status, lock = open("lock", O_CREAT | O_RDWR, 0644);
        waitpid(child, &status, 0);
        written += WIFSIGNALED(status) && flock(lock, LOCK_EX) == 0 && write(shared, line, sizeof line) == sizeof line;
        close(lock);
    }
    long end = lseek(shared, 0, SEEK_END), found = 0;
    for (char c; pread(shared, &c, 1, found) == 1 && c == 'x' && found < 1000;) found++;
    printf("%d killed, %s\n", written, end % 128 == 0 && end >= 40 * 128 && found == 1000 ? "all written" : "something is missing");
    return 0;
}
