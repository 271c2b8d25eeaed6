"""CUDA without a GPU: kernels compiled by NVRTC, and executed on the CPU by an emulator.

``nvrtc.py`` compiles a text for several architectures, warnings as errors. ``emulator.h`` makes the
same text run on the CPU, ``building.py`` compiles it with g++, and ``standin.py`` is a ``cupy`` on
NumPy whose kernels run there. Read the header first: it says what is reported.
"""
