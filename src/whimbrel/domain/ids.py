"""Ids and names, one type each, so that a project's id is never taken for a user's."""

from typing import NewType

ServerId = NewType("ServerId", str)  # uuid with dashes, as in the compute API
RunId = NewType("RunId", str)  # uuid of a run; for a move it is the migration's uuid and the consumer's
ProjectId = NewType("ProjectId", str)
UserId = NewType("UserId", str)
HostName = NewType("HostName", str)  # unique in the whole cloud
CellName = NewType("CellName", str)
ProviderId = NewType("ProviderId", str)  # uuid of a resource provider; a host's root provider is its hypervisor's id
ConsumerId = NewType("ConsumerId", str)  # a server's or a run's id
Slot = NewType("Slot", str)  # which incarnation of a server's guest a host holds: the id of the run that made it
GroupId = NewType("GroupId", str)  # uuid of a server group
