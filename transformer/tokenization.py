"""§5.1: Moses punctuation normalisation and tokenisation, by sacremoses, and the way back to plain text."""

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from transformer.config import Preparation


class Moses:
    """Text of one language to words separated by single spaces, and back."""

    def __init__(self, language: str, preparation: Preparation):
        self.preparation = preparation
        self.normalizer = MosesPunctNormalizer(language)
        self.tokenizer = MosesTokenizer(language)
        self.detokenizer = MosesDetokenizer(language)

    def tokenize(self, line: str) -> str:
        """Raw sentence to tokenised sentence."""
        if self.preparation.normalize_punctuation:
            line = self.normalizer.normalize(line)
        return self.tokenizer.tokenize(line, escape=self.preparation.escape, return_str=True)

    def detokenize(self, line: str) -> str:
        """Tokenised sentence to plain text; undoes the escapes, not the normalisation."""
        return self.detokenizer.detokenize(line.split(), unescape=self.preparation.escape)
