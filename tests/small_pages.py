"""A plugin of pytest's: what tests start has no huge pages.

Each boot of an emulated machine takes some 800 MB anew. Where this host is itself a guest that gives free
memory back (a balloon's free page reporting), a huge page has to be fetched and cleared: up to 3 s of CPU
time a boot, in small pages half a second. What is measured in virtual time knows nothing of it.
"""

import ctypes

_PR_SET_THP_DISABLE = 41

# Children inherit it, whatever they execute.
ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)
