"""What translating addresses costs a program: a model fed by every access that it makes."""
