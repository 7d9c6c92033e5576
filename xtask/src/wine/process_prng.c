/* bcryptprimitives.dll, as far as Rust programs need it: Wine 8 has none. */
#include <stddef.h>

/* RtlGenRandom, in advapi32. */
__declspec(dllimport) unsigned char __stdcall SystemFunction036(void *buffer, unsigned long length);

__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *buffer, size_t length)
{
    return SystemFunction036(buffer, (unsigned long)length);
}
