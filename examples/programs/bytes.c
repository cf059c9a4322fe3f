/* How often each byte is in a file, for `wharf compute run`: 256 numbers of 64 bits, little-endian. The value is how many different bytes there are.

     clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -Wl,--export=wharf_input -Wl,--export=wharf_output -o bytes.wasm bytes.c
     wharf compute load drive.img bytes.wasm /bytes.wasm
     wharf compute run drive.img /bytes.wasm /words.txt --out counts
*/

typedef unsigned char u8;
typedef unsigned long long u64;

#define EXPORT(name) __attribute__((export_name(name)))

/* Where the drive puts what it gives, and finds what is made. */
u8 wharf_input[8192];
u8 wharf_output[8192];

static u64 counts[256];
static int given;

EXPORT("wharf_step") long long wharf_step(int input_bytes, int room_bytes)
{
    for (int i = 0; i < input_bytes; i++)
        counts[wharf_input[i]]++;
    return input_bytes; /* all is taken, nothing made */
}

EXPORT("wharf_finish") long long wharf_finish(int room_bytes)
{
    int bytes = 0;
    /* As many whole numbers as there is room for. */
    while (given < 256 && bytes + 8 <= room_bytes) {
        for (int i = 0; i < 8; i++)
            wharf_output[bytes++] = (u8)(counts[given] >> 8 * i);
        given++;
    }
    return bytes;
}

EXPORT("wharf_value") long long wharf_value(void)
{
    int different = 0;
    for (int i = 0; i < 256; i++)
        different += counts[i] != 0;
    return different;
}
