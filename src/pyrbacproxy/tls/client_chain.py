"""Presented chain + current client CA pool + time → `ClientCertificate` or why not."""


class ClientCaPool:
    """stub"""

    @classmethod
    def from_pem(cls, text: bytes) -> "ClientCaPool":
        return cls()
