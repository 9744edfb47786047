//! Models as cases write them, made of layers by PyTorch's names.
