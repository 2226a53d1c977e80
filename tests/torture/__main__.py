import sys

from tests.torture.campaign import main

sys.exit(main())
