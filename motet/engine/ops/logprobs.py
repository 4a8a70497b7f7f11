"""Draft by the lead, to be replaced by the ops helper's."""
from typing import NamedTuple
import torch
class DrawnTokens(NamedTuple):
    tokens: torch.Tensor
    logprobs: torch.Tensor
def log_normalizer(l): return torch.logsumexp(l,-1)
def logits_gradient_(l,z,t,g):
    if t.ndim==1: t,g=t[:,None],g[:,None]
    l.sub_(z[:,None]).exp_().mul_(-g.sum(1)[:,None])
    return l.scatter_add_(1,t,g)
def draw(logits,temperature,top_k,top_p,uniform):
    T=torch.where(temperature>0,temperature,torch.ones_like(temperature))
    l=logits/T[:,None]
    lp=l-log_normalizer(l)[:,None]
    toks=[]
    for i in range(l.shape[0]):
        if temperature[i]==0: toks.append(int(lp[i].argmax())); continue
        s,idx=lp[i].exp().double().sort(descending=True,stable=True)
        if top_k[i]>0: s[int(top_k[i]):]=0
        if top_p[i]<1:
            c=s.cumsum(0); s[(c-s)>=top_p[i]]=0
        c=s.cumsum(0)
        toks.append(int(idx[min(int(torch.searchsorted(c,uniform[i]*c[-1],right=True)),int((s>0).sum())-1)]))
    t=torch.tensor(toks)
    return DrawnTokens(t,lp.gather(1,t[:,None])[:,0])
