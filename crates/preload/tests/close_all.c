/* Closes every descriptor, as daemons do, and uses files after that. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **arguments) {
    char text[32] = {0};
    if (count < 2 || chdir(arguments[1]) < 0) return 1;
    int fd = open("kept", O_CREAT | O_RDWR, 0644);
    if (write(fd, "still here", 10) != 10) return 2;
    closefrom(3);
    if (read(fd, text, 1) >= 0) return 3;
    for (int i = 3; i < 1024; i++) close(i);
    puts("closed all");
    fd = open("kept", O_RDONLY);
    if (fd < 0 || read(fd, text, 31) != 10) return 4;
    puts(text);
    return 0;
}
