"""Ids and names, with a type for each, so that type checks keep them apart."""

from typing import NewType

ServerId = NewType("ServerId", str)  # uuid with dashes, as in the compute API
RunId = NewType("RunId", str)  # uuid of a run; of a move: also of its migration and its consumer
ProjectId = NewType("ProjectId", str)
UserId = NewType("UserId", str)
HostName = NewType("HostName", str)  # unique in the whole cloud
CellName = NewType("CellName", str)
ProviderId = NewType("ProviderId", str)  # uuid of a resource provider; a host's root provider is its hypervisor's id
ConsumerId = NewType("ConsumerId", str)  # a server's or a run's id
Slot = NewType("Slot", str)  # distinguishes a server's guests: id of the run that made the guest
GroupId = NewType("GroupId", str)  # uuid of a server group
