/* A component with a child that ends for nobody: `launcher PROGRAM ARGUMENT...` runs the program, and beside
   it this one without arguments, which sleeps for ever and has the same pipes open. */
#include <process.h>
#include <windows.h>

int main(int count, char **words)
{
    if (count == 1)
        Sleep(INFINITE);
    _spawnl(_P_NOWAIT, words[0], words[0], NULL);
    return (int)_spawnv(_P_WAIT, words[1], (const char *const *)(words + 1));
}
